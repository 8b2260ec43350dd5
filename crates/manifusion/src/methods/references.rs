//! What a method is described in, for those who cite it.

/// A publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its BibTeX key.
    pub key: &'static str,
    /// Its BibTeX entry.
    pub bibtex: &'static str,
}

/// Declares publications: a name here, and the entry with its key.
macro_rules! references {
    ($($name:ident = $kind:literal $key:literal { $($field:literal: $value:literal,)+ })+) => {
        $(
            pub(crate) const $name: Reference = Reference {
                key: $key,
                bibtex: concat!(
                    "@", $kind, "{", $key, ",\n", $("  ", $field, " = {", $value, "},\n",)+ "}"
                ),
            };
        )+
    };
}

references! {
    RDM = "inproceedings" "huang2022riemannian" {
        "title": "Riemannian Diffusion Models",
        "author": "Huang, Chin-Wei and Aghajohari, Milad and Bose, Avishek Joey and Panangaden, \
                   Prakash and Courville, Aaron",
        "booktitle": "Advances in Neural Information Processing Systems",
        "year": "2022",
    }
    RSGM = "inproceedings" "debortoli2022riemannian" {
        "title": "Riemannian Score-Based Generative Modelling",
        "author": "De Bortoli, Valentin and Mathieu, Emile and Hutchinson, Michael and Thornton, \
                   James and Teh, Yee Whye and Doucet, Arnaud",
        "booktitle": "Advances in Neural Information Processing Systems",
        "year": "2022",
    }
    SCORE_SDE = "inproceedings" "song2021score" {
        "title": "Score-Based Generative Modeling through Stochastic Differential Equations",
        "author": "Song, Yang and Sohl-Dickstein, Jascha and Kingma, Diederik P. and Kumar, \
                   Abhishek and Ermon, Stefano and Poole, Ben",
        "booktitle": "International Conference on Learning Representations",
        "year": "2021",
    }
    RFM = "inproceedings" "chen2024flow" {
        "title": "Flow Matching on General Geometries",
        "author": "Chen, Ricky T. Q. and Lipman, Yaron",
        "booktitle": "International Conference on Learning Representations",
        "year": "2024",
    }
    PARZEN = "inproceedings" "vincent2002manifold" {
        "title": "Manifold Parzen Windows",
        "author": "Vincent, Pascal and Bengio, Yoshua",
        "booktitle": "Advances in Neural Information Processing Systems",
        "year": "2002",
    }
    MOSER = "inproceedings" "rozen2021moser" {
        "title": "Moser Flow: Divergence-based Generative Modeling on Manifolds",
        "author": "Rozen, Noam and Grover, Aditya and Nickel, Maximilian and Lipman, Yaron",
        "booktitle": "Advances in Neural Information Processing Systems",
        "year": "2021",
    }
    RCNF = "inproceedings" "mathieu2020riemannian" {
        "title": "Riemannian Continuous Normalizing Flows",
        "author": "Mathieu, Emile and Nickel, Maximilian",
        "booktitle": "Advances in Neural Information Processing Systems",
        "year": "2020",
    }
    POWER_SPHERICAL = "article" "decao2020power" {
        "title": "The Power Spherical Distribution",
        "author": "De Cao, Nicola and Aziz, Wilker",
        "journal": "arXiv:2006.04437",
        "year": "2020",
    }
    VON_MISES_FISHER = "article" "banerjee2005clustering" {
        "title": "Clustering on the Unit Hypersphere using von Mises--Fisher Distributions",
        "author": "Banerjee, Arindam and Dhillon, Inderjit S. and Ghosh, Joydeep and Sra, Suvrit",
        "journal": "Journal of Machine Learning Research",
        "volume": "6",
        "pages": "1345--1382",
        "year": "2005",
    }
    KENT = "article" "kent1982fisher" {
        "title": "The Fisher--Bingham Distribution on the Sphere",
        "author": "Kent, John T.",
        "journal": "Journal of the Royal Statistical Society, Series B",
        "volume": "44",
        "number": "1",
        "pages": "71--80",
        "year": "1982",
    }
}
