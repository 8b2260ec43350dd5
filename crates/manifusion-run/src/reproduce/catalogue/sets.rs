//! Sets of data, and where they can be had.

use crate::reproduce::kinds::{FileInfo, Origin, Set};

const EARTH_COLUMNS: &str = "lat,lon (degrees north and east)";
const TORSION_COLUMNS: &str = "phi,psi (degrees)";
const RNA_COLUMNS: &str = "alpha,beta,gamma,delta,epsilon,zeta,chi (degrees)";

macro_rules! file_set {
    ($name:ident, $id:literal, $title:literal, $manifold:literal, $file:literal, $rows:literal,
     $columns:expr, $sha:literal, $origin:literal, $differs:expr) => {
        pub(super) static $name: Set = Set {
            id: $id,
            title: $title,
            manifold: $manifold,
            origin: Origin::File(FileInfo {
                name: $file,
                rows: $rows,
                columns: $columns,
                sha256: $sha,
                origin: $origin,
            }),
            differs: $differs,
        };
    };
}

file_set!(
    VOLCANO,
    "volcano",
    "Volcanic eruptions",
    "sphere:2",
    "volcano.csv",
    827,
    EARTH_COLUMNS,
    "210e4e722318284f79ec16bd8a5ab0414236561cc26a57d9d6fa12541f1eb3c5",
    "github.com/oxcsml/riemannian-score-sde, data/volerup.csv, comment lines removed (NOAA NGDC)",
    None
);
file_set!(
    EARTHQUAKE,
    "earthquake",
    "Earthquakes",
    "sphere:2",
    "earthquake.csv",
    6120,
    EARTH_COLUMNS,
    "e1708dfb3b6b85693b94098c989cfe77b0a26cd46f7c5fb9c94dbda17de61d69",
    "github.com/oxcsml/riemannian-score-sde, data/quakes_all.csv, comment lines removed (NOAA NGDC)",
    None
);
file_set!(
    FLOOD,
    "flood",
    "Floods",
    "sphere:2",
    "flood.csv",
    4875,
    EARTH_COLUMNS,
    "24e31000d8ecea9bf28f3fd1139f3bbb0acc127e66e53d2f7c17a21a752da25c",
    "github.com/oxcsml/riemannian-score-sde, data/flood.csv, comment lines removed (Dartmouth Flood \
     Observatory)",
    None
);
file_set!(
    FIRE,
    "fire",
    "Fires",
    "sphere:2",
    "fire.csv",
    12809,
    EARTH_COLUMNS,
    "e848ae0b1527828f6d87e5deb1c95c6e4979ce66f0138ffc0872028ef8ae0fb9",
    "github.com/oxcsml/riemannian-score-sde, data/fire.csv, comment lines removed (NASA FIRMS)",
    None
);

file_set!(
    GENERAL,
    "general",
    "General amino acids",
    "torus:2",
    "protein_general.csv",
    77941,
    TORSION_COLUMNS,
    "e185a3bf12351c7ccc9cf47014e1d1c8f50fd059e86af446e90886b2a459570f",
    "computed from X-ray entries of the Protein Data Bank (resolution 2.0 Å or better, B factors at \
     most 30); any table of backbone angles of residues other than Gly, Pro and pre-Pro has this form",
    Some("77941 residues of 535 chains, not the paper's 138208 of the Top500 list")
);
file_set!(
    GLYCINE,
    "glycine",
    "Glycine",
    "torus:2",
    "protein_glycine.csv",
    7754,
    TORSION_COLUMNS,
    "be864e8a815588d3906a5c0af8842dc2b4ef445ef2aa91931c4932d6b257374e",
    "computed from X-ray entries of the Protein Data Bank, as protein_general.csv; glycine",
    Some("7754 residues, not the paper's 13283")
);
file_set!(
    PROLINE,
    "proline",
    "Proline",
    "torus:2",
    "protein_proline.csv",
    3969,
    TORSION_COLUMNS,
    "b1f5bd52f810ee499003a2512a41f470585596e9d0f9516c66e6c859aa5e2c18",
    "computed from X-ray entries of the Protein Data Bank, as protein_general.csv; proline",
    Some("3969 residues, not the paper's 7634")
);
file_set!(
    PREPRO,
    "prepro",
    "Pre-proline",
    "torus:2",
    "protein_prepro.csv",
    3575,
    TORSION_COLUMNS,
    "001ff4badd4f26c5ab35f1c37ab579daa5456f69ce881c4c945549054c582cf5",
    "computed from X-ray entries of the Protein Data Bank, as protein_general.csv; residues before a \
     proline, themselves neither Gly nor Pro",
    Some("3575 residues, not the paper's 6910")
);
file_set!(
    RNA,
    "rna",
    "RNA",
    "torus:7",
    "rna.csv",
    9478,
    RNA_COLUMNS,
    "2e16b7069606ff547f12e5539243230d308c503da1162529d6e4d853d20333bc",
    "github.com/vislearn/FFF, fff/data/raw_data/torus/rna.tsv, the seven angles",
    None
);
file_set!(
    RNA_NR185,
    "rna_nr185",
    "RNA, non-redundant",
    "torus:7",
    "rna_nr185.csv",
    11006,
    RNA_COLUMNS,
    "a57ecbb1c7108b8ed4434325efc193d558cf5944b37c5b6f00e72236f5b096de",
    "github.com/EvryRNA/RNA-TorsionBERT_viz, data/NATIVE/native/train.json: bases A, C, G, U with all \
     seven angles, repeated rows dropped",
    Some(
        "not in the paper: standard torsions of 185 non-redundant structures (in rna.csv, epsilon and \
         zeta are taken from atoms of one nucleotide and are nearly functions of the other angles)"
    )
);

macro_rules! generated_set {
    ($name:ident, $id:literal, $title:literal, $manifold:literal) => {
        pub(super) static $name: Set = Set {
            id: $id,
            title: $title,
            manifold: $manifold,
            origin: Origin::Generated($id),
            differs: None,
        };
    };
}

generated_set!(WRAPPED, "hyperbolic-wrapped", "One wrapped normal", "hyperbolic:2,metric=lorentz");
generated_set!(GAUSSIANS, "hyperbolic-gaussians", "Five Gaussians", "hyperbolic:2,metric=lorentz");
generated_set!(
    CHECKERBOARD,
    "hyperbolic-checkerboard",
    "Checkerboard",
    "hyperbolic:2,metric=lorentz"
);
generated_set!(
    MIXTURE,
    "hyperbolic-mixture",
    "Four wrapped normals",
    "hyperbolic:2,metric=lorentz"
);
generated_set!(ROTATIONS, "so3-modes", "Multimodal density on SO(3)", "so:3");
